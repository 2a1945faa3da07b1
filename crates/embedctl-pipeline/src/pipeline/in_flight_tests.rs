//! The distinct texts of a window.

use proptest::prelude::*;

use super::in_flight::Distinct;
use crate::record::Texts;

#[test]
fn the_first_of_equal_texts_stands_for_all() {
    let texts: Texts = ["b", "a", "b", "", "b", "a"].into_iter().collect();
    let distinct = Distinct::new(&texts);
    assert_eq!((distinct.len(), distinct.rows()), (3, 6));
    assert_eq!(distinct.of_rows().collect::<Vec<_>>(), [0, 1, 0, 2, 0, 1]);
    assert_eq!([0, 1, 2].map(|number| distinct.first(number)), [0, 1, 3]);
    assert_eq!([0, 1, 2].map(|number| distinct.copies(number)), [3, 2, 1]);
    assert_eq!(Distinct::new(&Texts::default()).len(), 0);
}

proptest! {
    #[test]
    fn every_row_is_given_its_own_text(all in proptest::collection::vec("[ab]{0,3}", 0..60)) {
        let texts: Texts = all.iter().collect();
        let distinct = Distinct::new(&texts);
        for (row, number) in distinct.of_rows().enumerate() {
            prop_assert_eq!(texts.get(distinct.first(number)), &all[row]);
        }
        let mut sorted = all.clone();
        sorted.sort();
        sorted.dedup();
        prop_assert_eq!(distinct.len(), sorted.len());
        let copies: u64 = (0..distinct.len()).map(|number| distinct.copies(number)).sum();
        prop_assert_eq!(copies, all.len() as u64);
    }
}
